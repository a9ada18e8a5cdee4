// A part of kernels has a header, and needs no op.
