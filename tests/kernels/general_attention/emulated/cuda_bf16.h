#pragma once
#include "cuda_runtime_api.h"
#include "deckle/base/half.h"
using __nv_bfloat16 = deckle::bfloat16;
inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
