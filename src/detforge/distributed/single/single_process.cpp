#include "detforge/distributed/single/single_process.h"
