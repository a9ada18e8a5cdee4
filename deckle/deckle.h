#pragma once

/// The whole public interface. Inside the library nobody includes this: a new op would rebuild everything.

#include "deckle/attention/attention.h"
#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "deckle/core/allocator.h"
#include "deckle/core/generator.h"
#include "deckle/core/tensor.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/io/safetensors.h"
#include "deckle/io/text_dataset.h"
#include "deckle/nested/generated/all.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nn/decoder.h"
#include "deckle/nn/generate.h"
#include "deckle/optim/adamw.h"
#include "deckle/optim/clip.h"
#include "deckle/optim/schedule.h"
#include "deckle/optim/sgd.h"
