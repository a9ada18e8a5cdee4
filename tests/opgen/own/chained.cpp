// A kernel file.
