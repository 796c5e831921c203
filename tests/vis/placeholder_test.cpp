// Removed by the first real test of this folder.
