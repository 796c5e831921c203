// Exists only to give the precompiled header a target to be built in.
