// The gradients of weight and bias of a norm over rows: each column's sum over rows. A block has as many columns as it is wide, and 1024
// threads; several blocks in y share the rows, and each gives a row of parts. `mean` may be absent (0: rms_norm), and either result
// (0: not needed).

typedef math_t<T> A;

KERNEL __launch_bounds__(1024) norm_parameters(
    u64 rows, u64 columns, T *weight_grad, T *bias_grad, const T *grad, VIEW input, const A *mean, const A *rstd) {
  const int AT_ONCE = 4;
  __shared__ A products[1024], sums[1024];
  In<T> x(input);
  u64 column = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  u64 chunk = (rows + gridDim.y - 1) / gridDim.y, end = min(rows, chunk * (blockIdx.y + 1));
  A product = A(0), sum = A(0);
  if (column < columns) {
    u64 r = chunk * blockIdx.y + threadIdx.y;
    for (; r + (AT_ONCE - 1) * blockDim.y < end; r += AT_ONCE * blockDim.y) {
      T g[AT_ONCE], v[AT_ONCE];
      A m[AT_ONCE], s[AT_ONCE];
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++) {
        u64 at = r + u * blockDim.y;
        g[u] = grad[at * columns + column], v[u] = x.at(at * columns + column), m[u] = mean ? mean[at] : A(0), s[u] = rstd[at];
      }
#pragma unroll
      for (int u = 0; u < AT_ONCE; u++) product += widen(g[u]) * (widen(v[u]) - m[u]) * s[u], sum += widen(g[u]);
    }
    for (; r < end; r += blockDim.y) {
      A g = widen(grad[r * columns + column]);
      product += g * (widen(x.at(r * columns + column)) - (mean ? mean[r] : A(0))) * rstd[r];
      sum += g;
    }
  }
  u32 mine = threadIdx.y * blockDim.x + threadIdx.x;
  products[mine] = product;
  sums[mine] = sum;
  for (u32 half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) products[mine] += products[mine + half * blockDim.x], sums[mine] += sums[mine + half * blockDim.x];
  }
  if (threadIdx.y != 0 || column >= columns) return;
  if (weight_grad) weight_grad[blockIdx.y * columns + column] = narrow<T>(products[mine]);
  if (bias_grad) bias_grad[blockIdx.y * columns + column] = narrow<T>(sums[mine]);
}
