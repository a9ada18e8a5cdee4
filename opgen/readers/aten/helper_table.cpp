#include "opgen/readers/aten/helper_table.h"

namespace opgen::aten {

const char* const kHelperMethods = R"(
sizes(Tensor self) -> int[]
size(Tensor self, int dim) -> int
numel(Tensor self) -> int
dim(Tensor self) -> int
strides(Tensor self) -> int[]
stride(Tensor self, int dim) -> int
storage_offset(Tensor self) -> int
blocksize(Tensor self) -> int[]
scalar_type(Tensor self) -> ScalarType
dtype(Tensor self) -> ScalarType
layout(Tensor self) -> Layout
device(Tensor self) -> Device
options(Tensor self) -> TensorOptions
defined(Tensor self) -> bool
is_complex(Tensor self) -> bool
is_contiguous(Tensor self) -> bool
is_sparse(Tensor self) -> bool
is_nested(Tensor self) -> bool
is_cuda(Tensor self) -> bool
is_cpu(Tensor self) -> bool
requires_grad(Tensor self) -> bool
suggest_memory_format(Tensor self) -> MemoryFormat
get_nested_sizes(Tensor self) -> Tensor
is_cpu(Device self) -> bool
is_cuda(Device self) -> bool
is_xpu(Device self) -> bool
type(Device self) -> int
conj(Scalar self) -> Scalar
log(Scalar self) -> Scalar
isComplex(Scalar self) -> bool
isFloatingPoint(Scalar self) -> bool
toDouble(Scalar self) -> float
toFloat(Scalar self) -> float
toLong(Scalar self) -> int
toComplexDouble(Scalar self) -> Scalar
dtype(TensorOptions self, ScalarType dtype) -> TensorOptions
device(TensorOptions self, Device device) -> TensorOptions
)";

const char* const kHelperFunctions = R"(
int64_t(Scalar a) -> int
double(Scalar a) -> float
bool(Scalar a) -> bool
Scalar(Scalar a) -> Scalar
sqrt(float a) -> float
exp(float a) -> float
log(float a) -> float
pow(float a, float b) -> float
TensorGeometry(Tensor a) -> TensorGeometry
GradMode_is_enabled() -> bool
_convolution_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? e, Tensor? f, int[] g, int[] h, int[] i, bool j, int[] k,
    int l, bool m, bool n, bool o, bool p) -> Tensor
_cudnn_convolution_backward(Tensor a, Tensor b, Tensor c, int[] d, int[] e, int[] f, int[] g, bool h, int i,
    bool[] j) -> (Tensor, Tensor)
_cudnn_ctc_loss_backward(Tensor a, Tensor b, Tensor c, bool d) -> Tensor
_euclidean_dist_backward(Tensor a, Tensor b, Tensor c, Tensor d) -> (Tensor, Tensor)
_fused_dropout_backward(Tensor a, Tensor b, float c) -> Tensor
_grouped_mm_mat1_backward(Tensor a, Tensor b, int[] c, int[] d, Layout e, Tensor? f, int g) -> Tensor
_grouped_mm_mat2_backward(Tensor a, Tensor b, int[] c, int[] d, Layout e, Tensor? f, int g) -> Tensor
_miopen_ctc_loss_backward(Tensor a, Tensor b, Tensor c, bool d) -> Tensor
_nested_from_padded_backward(Tensor a, Tensor b, bool c) -> Tensor
_nested_split_with_sizes_backward(Tensor[] a, int[] b, int c, Tensor d, TensorOptions e) -> Tensor
_to_copy_backward(Tensor a, TensorOptions b) -> Tensor
_trilinear_backward(Tensor a, Tensor? b, Tensor? c, Tensor? d, int[] e, int[] f, int[] g, int[] h, bool[] i) -> (Tensor,
    Tensor, Tensor)
amaxamin_jvp(Tensor a, Tensor b, Tensor c, int[] d, bool e) -> Tensor
angle_backward(Tensor a, Tensor b) -> Tensor
apply_loss_reduction(Tensor a, int b) -> Tensor
as_strided_backward(Tensor a, TensorGeometry b, int[] c, int[] d, int? e) -> Tensor
as_strided_scatter_backward(Tensor a, TensorGeometry b, TensorGeometry c, int[] d, int[] e, int? f) -> Tensor
atan2_backward(Tensor a, Tensor b, Tensor c, bool[] d) -> (Tensor, Tensor)
batch_norm_jvp(Tensor a, Tensor b, Tensor? c, Tensor? d, Tensor? e, Tensor? f, Tensor? g, Tensor? h, Tensor i, Tensor j,
    bool k, float l) -> Tensor
batchnorm_double_backward(Tensor a, Tensor? b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor? g, Tensor? h, bool i, float j,
    Tensor? k, Tensor? l, bool[] m) -> (Tensor, Tensor, Tensor)
binary_cross_entropy_double_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? e, int f) -> Tensor
binary_cross_entropy_double_backward_grad_output(Tensor a, Tensor b, Tensor c, Tensor? d, int e) -> Tensor
binary_cross_entropy_double_backward_target(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? e, int f) -> Tensor
binary_cross_entropy_target_backward(Tensor a, Tensor b, Tensor c, Tensor? d, int e) -> Tensor
binary_cross_entropy_with_logits_backward(Tensor a, Tensor b, Tensor c, Tensor? d, Tensor? e, int f) -> Tensor
binary_cross_entropy_with_logits_target_backward(Tensor a, Tensor b, Tensor c, Tensor? d, Tensor? e, int f) -> Tensor
block_diag_backward(Tensor a, TensorSizes b, ScalarType[] c) -> Tensor[]
block_diag_jvp(Tensor[] a) -> Tensor
cat_jvp(Tensor[] a, int b) -> Tensor
cat_tensors_backward(Tensor a, TensorSizes b, ScalarType[] c, int d) -> Tensor[]
cholesky_backward(Tensor a, bool b, Tensor c) -> Tensor
cholesky_inverse_backward(Tensor a, Tensor b, bool c, Tensor d) -> Tensor
cholesky_inverse_jvp(Tensor a, Tensor b, Tensor c, bool d) -> Tensor
cholesky_jvp(Tensor a, Tensor b, bool c) -> Tensor
cholesky_solve_backward(Tensor a, Tensor b, Tensor c, Tensor d, bool e, bool[] f) -> (Tensor, Tensor)
cholesky_solve_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> Tensor
chunk_backward_nested(Tensor[] a, Tensor b, int c, int d) -> Tensor
clamp_backward(Tensor a, Tensor b, Tensor? c, Tensor? d) -> Tensor
clamp_backward(Tensor a, Tensor b, Scalar? c, Scalar? d) -> Tensor
clamp_backward_min_max(Tensor a, Tensor b, Tensor? c, Tensor? d, bool[] e) -> (Tensor, Tensor)
clamp_jvp(Tensor a, Tensor b, Tensor? c, Tensor? d, Tensor? e, Tensor? f) -> Tensor
constant_pad_nd_backward(Tensor a, int[] b) -> Tensor
convolution_backward_jvp_grad_bias(Tensor a, Tensor b) -> Tensor
convolution_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor? e, Tensor? f, int[] g, int[] h, int[] i, bool j, int[] k,
    int l) -> Tensor
copysign_tensor_self_backward(Tensor a, Tensor b, Tensor c) -> Tensor
cumprod_jvp(Tensor a, Tensor b, Tensor c, int d) -> Tensor
cumsum_backward(Tensor a, int b) -> Tensor
deg2rad_backward(Tensor a) -> Tensor
div_tensor_other_backward(Tensor a, Tensor b, Tensor c) -> Tensor
div_tensor_other_backward(Tensor a, Tensor b, Tensor c, str? d) -> Tensor
div_tensor_self_backward(Tensor a, Tensor b, ScalarType c) -> Tensor
div_tensor_self_backward(Tensor a, Scalar b, ScalarType c) -> Tensor
div_tensor_self_backward(Tensor a, Tensor b, ScalarType c, str? d) -> Tensor
div_tensor_self_backward(Tensor a, Scalar b, ScalarType c, str? d) -> Tensor
elu_double_backward(Tensor a, Tensor b, Scalar c, Scalar d, Scalar e, bool f, Tensor g) -> Tensor
embedding_dense_double_backward(Tensor a, Tensor b, int c) -> Tensor
error_for_max_pool2d_double_backward() -> Tensor
evenly_distribute_backward(Tensor a, Tensor b, Tensor c) -> Tensor
evenly_read_jvp(Tensor a, Tensor b, Tensor c) -> Tensor
fft_c2r_backward(Tensor a, int[] b, int c) -> Tensor
fft_r2c_backward(Tensor a, int[] b, int c, bool d, int e) -> Tensor
gather_with_keepdimed_indices(Tensor a, int b, Tensor c, bool d) -> Tensor
gelu_double_backward(Tensor a, Tensor b, Tensor c, str d) -> Tensor
get_nested_tensor_impl(Tensor a) -> Tensor
glu_double_backward(Tensor a, Tensor b, Tensor c, int d) -> Tensor
glu_double_backward_grad_output(Tensor a, Tensor b, int c) -> Tensor
group_norm_invstd_jvp(Tensor a, Tensor b, Tensor c, Tensor d, int e) -> Tensor
group_norm_jvp(Tensor a, Tensor b, Tensor? c, Tensor? d, Tensor? e, Tensor? f, Tensor g, Tensor h, int i) -> Tensor
group_norm_mean_jvp(Tensor a, Tensor b, int c) -> Tensor
handle_r_to_c(ScalarType a, Tensor b) -> Tensor
householder_product_backward(Tensor a, Tensor b, Tensor c, Tensor d) -> (Tensor, Tensor)
householder_product_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e) -> Tensor
huber_loss_double_backward(Tensor a, Tensor b, Tensor c, int d, float e) -> Tensor
huber_loss_double_backward_grad_output(Tensor a, Tensor b, Tensor c, Tensor d, int e, float f) -> Tensor
i1_backward(Tensor a, Tensor b, Tensor c) -> Tensor
i1e_backward(Tensor a, Tensor b, Tensor c) -> Tensor
index_backward(Tensor a, Tensor?[] b, Tensor c) -> Tensor
index_reduce_backward(Tensor a, Tensor b, int c, Tensor d, Tensor e, str f, bool g, Tensor h) -> (Tensor, Tensor)
infinitely_differentiable_logit_backward(Tensor a, Tensor b, float? c) -> Tensor
infinitely_differentiable_mish_backward(Tensor a, Tensor b) -> Tensor
infinitely_differentiable_native_dropout_backward(Tensor a, Tensor b, float c) -> Tensor
infinitely_differentiable_native_group_norm_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor? g,
    int h, int i, int j, int k, float l, bool[] m) -> (Tensor, Tensor, Tensor)
infinitely_differentiable_native_rms_norm_backward(Tensor a, Tensor b, Tensor c, int[] d, Tensor e, Tensor? f,
    bool[] g) -> (Tensor, Tensor)
infinitely_differentiable_silu_backward(Tensor a, Tensor b) -> Tensor
isDifferentiableType(ScalarType a) -> bool
layer_norm_double_backward(Tensor a, Tensor? b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, Tensor h, int[] i,
    bool[] j) -> (Tensor, Tensor, Tensor)
layer_norm_jvp(Tensor a, Tensor b, Tensor? c, Tensor? d, Tensor? e, Tensor? f, Tensor g, Tensor h, int[] i) -> Tensor
linalg_det_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e) -> Tensor
linalg_det_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> Tensor
linalg_eig_backward(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> Tensor
linalg_eig_jvp(Tensor a, Tensor b, Tensor c, bool d) -> (Tensor, Tensor)
linalg_lstsq_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool[] f) -> (Tensor, Tensor)
linalg_lstsq_residuals_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f) -> Tensor
linalg_lstsq_solution_jvp(Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor
linalg_lu_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f) -> Tensor
linalg_lu_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> Tensor
linalg_lu_solve_LU(Tensor a, Tensor b, Tensor c, Tensor d, bool e, bool f) -> Tensor
linalg_lu_solve_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f, bool g) -> Tensor
linalg_matrix_exp_differential(Tensor a, Tensor b, bool c) -> Tensor
linalg_qr_backward(Tensor a, Tensor b, Tensor c, Tensor d, str e) -> Tensor
linalg_qr_jvp(Tensor a, Tensor b, Tensor c, str d) -> (Tensor, Tensor)
linalg_solve_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f, bool g) -> (Tensor, Tensor)
linalg_solve_jvp(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f) -> Tensor
linalg_solve_triangular_backward(Tensor a, Tensor b, Tensor c, bool d, bool e, bool f, bool[] g) -> (Tensor, Tensor)
linalg_solve_triangular_forward_AD(Tensor a, Tensor b, Tensor c, Tensor d, bool e, bool f, bool g) -> Tensor
linalg_svd_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> (Tensor, Tensor, Tensor)
linalg_vector_norm_backward(Tensor a, Tensor b, Scalar c, Tensor d, int[]? e, bool f) -> Tensor
linalg_vector_norm_jvp(Tensor a, Tensor b, Scalar c, Tensor d, int[]? e, bool f) -> Tensor
linear_double_backward(Tensor[] a, Tensor b, Tensor c, Tensor d) -> (Tensor, Tensor, Tensor)
log1p_backward(Tensor a, Tensor b) -> Tensor
log_sigmoid_double_backward(Tensor a, Tensor b) -> Tensor
logcumsumexp_backward(Tensor a, Tensor b, Tensor c, int d) -> Tensor
logcumsumexp_jvp(Tensor a, Tensor b, int c) -> Tensor
logsumexp_backward(Tensor a, Tensor b, Tensor c, int[] d, bool e) -> Tensor
logsumexp_jvp(Tensor a, Tensor b, int[] c, bool d) -> Tensor
lu_factor_ex_backward(Tensor a, Tensor b, Tensor c, bool d) -> Tensor
lu_factor_ex_jvp(Tensor a, Tensor b, Tensor c, bool d) -> Tensor
lu_unpack_backward(Tensor a, Tensor b, int c, int d) -> Tensor
masked_fill_backward(Tensor a, Tensor b) -> Tensor
max_pool_double_backward(Tensor a, Tensor b, int c) -> Tensor
maybe_multiply(Tensor a, Scalar b) -> Tensor
mean_backward(Tensor a, int[] b, int[]? c, int d, bool e) -> Tensor
mkldnn_rnn_layer_differentiable_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f, Tensor g, Tensor h,
    Tensor i, Tensor j, Tensor k, Tensor l, Tensor m, bool n, int o, int p, int q, bool r, bool s, bool t, int[] u, bool v,
    Tensor w) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)
mm_mat1_backward(Tensor a, Tensor b, int[] c, int[] d, Layout e, Scalar f) -> Tensor
mm_mat1_sparse_backward(Tensor a, Tensor b, Tensor c, Scalar d) -> Tensor
mm_mat2_backward(Tensor a, Tensor b, int[] c, int[] d, Layout e, Scalar f) -> Tensor
mse_loss_double_backward(Tensor a, Tensor b, int c) -> Tensor
mul_tensor_backward(Tensor a, Tensor b, ScalarType c) -> Tensor
mul_tensor_backward(Tensor a, Scalar b, ScalarType c) -> Tensor
mvlgamma_backward(Tensor a, Tensor b, int c) -> Tensor
nansum_backward(Tensor a, Tensor b, int[]? c, bool d) -> Tensor
native_dropout_double_backward(Tensor a, Tensor b, Tensor c, float d) -> Tensor
norm_backward(Tensor a, Tensor b, Scalar? c, Tensor d) -> Tensor
norm_backward(Tensor a, Tensor b, Scalar? c, Tensor d, int[] e, bool f) -> Tensor
norm_jvp(Tensor a, Tensor b, Scalar? c, Tensor d, int[] e, bool f) -> Tensor
norm_jvp(Tensor a, Tensor b, Scalar? c, Tensor d) -> Tensor
not_implemented(str a, str b="") -> Tensor
not_implemented_list(str a, str b) -> Tensor[]
ormqr_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f, bool g, bool[] h) -> (Tensor, Tensor, Tensor)
permute_backwards(Tensor a, int[] b) -> Tensor
pinv_backward(Tensor a, Tensor b, Tensor c) -> Tensor
pinv_jvp(Tensor a, Tensor b, Tensor c) -> Tensor
polar_backward(Tensor a, Tensor b) -> (Tensor, Tensor)
pow_backward(Tensor a, Tensor b, Scalar c) -> Tensor
pow_backward_exponent(Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor
pow_backward_exponent(Tensor a, Scalar b, Tensor c, Tensor d) -> Tensor
pow_backward_self(Tensor a, Tensor b, Tensor c) -> Tensor
prod_backward(Tensor a, Tensor b, Tensor c) -> Tensor
prod_backward(Tensor a, Tensor b, Tensor c, int d, bool e) -> Tensor
rad2deg_backward(Tensor a) -> Tensor
renorm_backward(Tensor a, Tensor b, Scalar c, int d, Scalar e) -> Tensor
renorm_jvp(Tensor a, Tensor b, Scalar c, int d, Scalar e) -> Tensor
repeat_backward(Tensor a, int[] b, int[] c) -> Tensor
restore_reduced_dims(Tensor a, int[] b, bool c) -> Tensor
reverse_list(int[] a) -> int[]
rms_norm_jvp(Tensor a, Tensor b, Tensor? c, Tensor? d, Tensor e, int[] f) -> Tensor
rms_norm_rstd_jvp(Tensor a, Tensor b, Tensor c, int[] d) -> Tensor
safe_logsumexp_jvp(Tensor a, Tensor b, int[] c, bool d) -> Tensor
scale_grad_by_count(Tensor a, Tensor b, int[] c) -> Tensor
scatter_reduce_backward(Tensor a, Tensor b, int c, Tensor d, Tensor e, str f, bool g, Tensor h) -> (Tensor, Tensor)
scatter_reduce_jvp(Tensor a, Tensor b, int c, Tensor d, Tensor e, Tensor f, str g, bool h, Tensor i) -> Tensor
sgn_backward(Tensor a, Tensor b, Tensor c) -> Tensor
sinc_backward(Tensor a, Tensor b) -> Tensor
slice_backward_wrapper(Tensor a, int[] b, int c, int? d, int? e, int f) -> Tensor
slogdet_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f) -> Tensor
slogdet_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e) -> (Tensor, Tensor)
smooth_l1_loss_double_backward(Tensor a, Tensor b, Tensor c, int d, float e) -> Tensor
soft_margin_loss_double_backward(Tensor a, Tensor b, Tensor c, int d) -> Tensor
soft_margin_loss_double_backward_grad_output(Tensor a, Tensor b, Tensor c, Tensor d, int e) -> Tensor
softmax_double_backward(Tensor a, Tensor b, int c, Tensor d) -> Tensor
softplus_double_backward(Tensor a, Tensor b, Scalar c, Scalar d) -> Tensor
sparse_mask_backward(Tensor a, Tensor b, Layout c) -> Tensor
sparse_sampled_addmm_backward(Tensor a, Tensor b, Tensor? c, Tensor? d, Scalar e, Scalar f, bool[] g) -> (Tensor, Tensor,
    Tensor)
sparse_sparse_matmul_backward(Tensor a, Tensor b, Tensor c, int d) -> Tensor
split_backward(Tensor[] a, int b, int c, int[] d, TensorOptions e) -> Tensor
split_with_sizes_backward(Tensor[] a, int[] b, int c, int[] d, TensorOptions e) -> Tensor
stack_jvp(Tensor[] a, int b) -> Tensor
stack_tensors_backward(Tensor a, int b, ScalarType[] c) -> Tensor[]
std_backward(Tensor a, Tensor b, Tensor c, int[]? d, Scalar? e, bool f) -> Tensor
std_mean_backward(Tensor a, Tensor b, Tensor c, Tensor d, int[]? e, Scalar? f, bool g) -> Tensor
sum_backward(Tensor a, int[] b, int[]? c, bool d) -> Tensor
sum_to(Tensor a, int[] b) -> Tensor
svd_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, Tensor f) -> Tensor
take_backward(Tensor a, Tensor b, Tensor c) -> Tensor
to_args_scalartypes(Tensor[] a) -> ScalarType[]
to_args_sizes(Tensor[] a) -> TensorSizes
to_sparse_backward(Tensor a, Layout b, int[] c) -> Tensor
triangular_solve_backward(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, bool f, bool g, bool h, bool[] i) -> (Tensor,
    Tensor)
triangular_solve_jvp(Tensor a, Tensor b, Tensor c, Tensor d, bool e, bool f, bool g) -> Tensor
unbind_backward(Tensor[] a, int b) -> Tensor
unbind_backward_nested(Tensor[] a, Tensor b, int c, TensorOptions d) -> Tensor
unbind_backward_nested_jagged(Tensor[] a, Tensor b, int c) -> Tensor
unsqueeze_multiple(Tensor a, int[] b, int c) -> Tensor
unsqueeze_to(Tensor a, int[] b) -> Tensor
unsqueeze_to(Tensor a, int b, int[] c) -> Tensor
unsqueeze_to(Tensor a, int[] b, int[] c) -> Tensor
values_backward(Tensor a, Tensor b) -> Tensor
var_backward(Tensor a, Tensor b, int[]? c, Scalar? d, bool e) -> Tensor
var_mean_backward(Tensor a, Tensor b, Tensor c, int[]? d, Scalar? e, bool f) -> Tensor
warn_backwards(Tensor a) -> Tensor
wrap_opt_if(Tensor a, bool b) -> Tensor?
)";

}  // namespace opgen::aten
