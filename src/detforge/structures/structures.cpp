// The folder's headers are plain structs; this file proves that each compiles alone.
#include "detforge/structures/batch.h"
#include "detforge/structures/detections.h"
#include "detforge/structures/sample.h"
