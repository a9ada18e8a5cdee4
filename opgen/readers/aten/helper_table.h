#pragma once

namespace opgen::aten {

/// Signatures of what formulas call beside the functions of the file, one a line. Where PyTorch's file calls a function that is
/// missing here, `check` says with which types; its line here is that call's, and the result what the formula stands for.
extern const char* const kHelperFunctions;
/// The same for methods; the first argument is what they are called on.
extern const char* const kHelperMethods;

}  // namespace opgen::aten
