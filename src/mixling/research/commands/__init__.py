"""The commands of researchers, one file each."""
