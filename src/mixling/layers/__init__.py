"""What mixers and models are made of: the base class of mixers, positions, norms, dropout, masks, hypernetworks."""

from typing import TYPE_CHECKING

from mixling.lazy import lazy_imports

if TYPE_CHECKING:
    from mixling.layers.positions import FFT_FROM, Positions, RelativePositions, toeplitz, toeplitz_product
    from mixling.layers.transforms import plain_operations as plain_operations
    from mixling.layers.transitions import TagScores, sequence_losses

__getattr__, __dir__ = lazy_imports(__name__)
