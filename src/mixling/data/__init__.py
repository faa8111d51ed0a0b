"""Files and hub data sets -> examples -> batches."""
