"""CRC-32C (Castagnoli), the checksum of record batches: `crc32c(data, value=0)`; `value` continues an earlier one.

The `crc32c` package does the work: with the processor's instruction where there is one, with its own table where there
is none. It is a dependency, so there is no second implementation here. It lets go of the GIL for large buffers by
itself. Its function is handed on as it is: a wrapper of our own would cost as much as the sum of a small batch.
"""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
