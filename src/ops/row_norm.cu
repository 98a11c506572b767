// The gradients of weight and bias of a norm over rows: each column's sum over rows. 32 columns and 32 rows at a time a block; several
// blocks in y share the rows, and each gives a row of parts. `mean` may be absent (0: rms_norm), and either result (0: not needed).

typedef math_t<T> A;

KERNEL norm_parameters(
    u64 rows, u64 columns, T *weight_grad, T *bias_grad, const T *grad, VIEW input, const A *mean, const A *rstd) {
  __shared__ A products[32][33], sums[32][33];
  In<T> x(input);
  u64 column = (u64)blockIdx.x * 32 + threadIdx.x;
  u64 chunk = (rows + gridDim.y - 1) / gridDim.y, end = min(rows, chunk * (blockIdx.y + 1));
  A product = A(0), sum = A(0);
  if (column < columns) {
    for (u64 r = chunk * blockIdx.y + threadIdx.y; r < end; r += 32) {
      A g = widen(grad[r * columns + column]);
      product += g * (widen(x.at(r * columns + column)) - (mean ? mean[r] : A(0))) * rstd[r];
      sum += g;
    }
  }
  products[threadIdx.y][threadIdx.x] = product;
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  product = warp_reduce<Sum>(products[threadIdx.x][threadIdx.y]);
  sum = warp_reduce<Sum>(sums[threadIdx.x][threadIdx.y]);
  column = (u64)blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x != 0 || column >= columns) return;
  if (weight_grad) weight_grad[blockIdx.y * columns + column] = narrow<T>(product);
  if (bias_grad) bias_grad[blockIdx.y * columns + column] = narrow<T>(sum);
}
