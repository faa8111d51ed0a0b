"""What mixers and models are made of: the base class of mixers, positions, norms, dropout, masks, hypernetworks."""
