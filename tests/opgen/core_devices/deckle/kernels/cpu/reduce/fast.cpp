// Stands for a kernel file; the generator looks at names alone.
