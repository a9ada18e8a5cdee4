#pragma once
#include "cuda_runtime_api.h"
#include "deckle/base/half.h"
using __half = deckle::float16;
inline float __half2float(__half x) { return static_cast<float>(x); }
inline __half __float2half_rn(float x) { return __half(x); }
