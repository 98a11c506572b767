// batch_norm of [rows, channels]: T is the input's type, U that of weight, bias and running statistics. Blocks have 32 channels and 32
// rows at a time; several in y share the rows, and the parts they leave are joined by a kernel of their own, in order.

typedef math_t<T> A;

// Count, mean and sum of squared deviations of some values (Chan, Golub and LeVeque, 1979).
struct Moments {
  A count, mean, squares;
  __device__ __forceinline__ void add(A x) {
    count += A(1);
    A d = x - mean;
    mean += d / count;
    squares += d * (x - mean);
  }
  __device__ __forceinline__ void join(Moments o) {
    if (o.count == A(0)) return;
    A both = count + o.count, d = o.mean - mean;
    mean += d * o.count / both;
    squares += o.squares + d * d * count * o.count / both;
    count = both;
  }
};

__device__ __forceinline__ void range(u64 rows, u64 part, u64 parts, u64 &begin, u64 &end) {
  u64 chunk = (rows + parts - 1) / parts;
  begin = min(rows, chunk * part);
  end = min(rows, begin + chunk);
}

// parts: [blocks in y][mean, squares][channels].
KERNEL batch_norm_moments(u64 rows, u64 channels, A *parts, const T *x) {
  __shared__ Moments tile[32][32];
  u64 channel = (u64)blockIdx.x * 32 + threadIdx.x, begin, end;
  range(rows, blockIdx.y, gridDim.y, begin, end);
  Moments m = {A(0), A(0), A(0)};
  if (channel < channels)
    for (u64 r = begin + threadIdx.y; r < end; r += 32) m.add(widen(x[r * channels + channel]));
  tile[threadIdx.y][threadIdx.x] = m;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int i = 1; i < 32; i++) m.join(tile[i][threadIdx.x]);
  parts[(2 * (u64)blockIdx.y) * channels + channel] = m.mean;
  parts[(2 * (u64)blockIdx.y + 1) * channels + channel] = m.squares;
}

// Joins the parts, keeps mean and reciprocal deviation, and moves the running statistics. `parts` may be where mean and invstd go.
KERNEL batch_norm_statistics(u64 rows, u64 channels, u64 count, double eps, double momentum, A *mean, A *invstd,
                                                 U *running_mean, U *running_var, i64 *batches, const A *parts_mean, const A *parts_squares,
                                                 u64 stride) {
  u64 c = thread_index();
  if (c == 0) batches[0] += 1;
  if (c >= channels) return;
  Moments m = {A(0), A(0), A(0)};
  for (u64 i = 0; i < count; i++) {
    u64 begin, end;
    range(rows, i, count, begin, end);
    m.join(Moments{A(end - begin), parts_mean[i * stride + c], parts_squares[i * stride + c]});
  }
  A variance = m.squares / A(rows), unbiased = m.squares / A(rows - 1);
  mean[c] = m.mean;
  invstd[c] = rsqrt_(variance + A(eps));
  running_mean[c] = narrow<U>(A(1 - momentum) * A(widen(running_mean[c])) + A(momentum) * m.mean);
  running_var[c] = narrow<U>(A(1 - momentum) * A(widen(running_var[c])) + A(momentum) * unbiased);
}

KERNEL batch_norm_transform(
    u64 rows, u64 channels, T *out, const T *x, const A *mean, const A *invstd, const U *weight, const U *bias) {
  for (u64 i = thread_index(); i < rows * channels; i += thread_count()) {
    u64 c = i % channels;
    out[i] = narrow<T>((widen(x[i]) - mean[c]) * invstd[c] * A(widen(weight[c])) + A(widen(bias[c])));
  }
}

// In evaluation, by the running statistics.
KERNEL batch_norm_inference(u64 rows, u64 channels, double eps, T *out, const T *x, const U *running_mean,
                                                const U *running_var, const U *weight, const U *bias) {
  for (u64 i = thread_index(); i < rows * channels; i += thread_count()) {
    u64 c = i % channels;
    A r = rsqrt_(A(widen(running_var[c])) + A(eps));
    out[i] = narrow<T>((widen(x[i]) - A(widen(running_mean[c]))) * r * A(widen(weight[c])) + A(widen(bias[c])));
  }
}

// parts: [blocks in y][sum of dy, sum of dy (x - mean)][channels].
KERNEL batch_norm_sums(u64 rows, u64 channels, A *parts_dy, A *parts_product, u64 stride, const T *grad, const T *x, const A *mean) {
  __shared__ A sums[32][33], products[32][33];
  u64 channel = (u64)blockIdx.x * 32 + threadIdx.x, begin, end;
  range(rows, blockIdx.y, gridDim.y, begin, end);
  A sum = A(0), product = A(0);
  if (channel < channels) {
    A m = mean[channel];
    for (u64 r = begin + threadIdx.y; r < end; r += 32) {
      A g = widen(grad[r * channels + channel]);
      sum += g;
      product += g * (widen(x[r * channels + channel]) - m);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  products[threadIdx.y][threadIdx.x] = product;
  __syncthreads();
  sum = warp_reduce<Sum>(sums[threadIdx.x][threadIdx.y]);
  product = warp_reduce<Sum>(products[threadIdx.x][threadIdx.y]);
  channel = (u64)blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x != 0 || channel >= channels) return;
  parts_dy[blockIdx.y * stride + channel] = sum;
  parts_product[blockIdx.y * stride + channel] = product;
}

// Joins the parts and gives the gradients of weight and bias.
KERNEL batch_norm_parameters(u64 channels, u64 count, A *sum_dy, A *sum_dy_xmu, U *weight_grad, U *bias_grad,
                                                 const A *invstd, const A *parts_dy, const A *parts_product, u64 stride) {
  u64 c = thread_index();
  if (c >= channels) return;
  A sum = A(0), product = A(0);
  for (u64 i = 0; i < count; i++) {
    sum += parts_dy[i * stride + c];
    product += parts_product[i * stride + c];
  }
  sum_dy[c] = sum;
  sum_dy_xmu[c] = product;
  weight_grad[c] = narrow<U>(product * invstd[c]);
  bias_grad[c] = narrow<U>(sum);
}

KERNEL batch_norm_backward(u64 rows, u64 channels, T *out, const T *grad, const T *x, const A *mean, const A *invstd,
                                               const U *weight, const A *sum_dy, const A *sum_dy_xmu) {
  A share = A(1) / A(rows);
  for (u64 i = thread_index(); i < rows * channels; i += thread_count()) {
    u64 c = i % channels;
    A r = invstd[c];
    A g = widen(grad[i]) - sum_dy[c] * share - (widen(x[i]) - mean[c]) * r * r * sum_dy_xmu[c] * share;
    out[i] = narrow<T>(g * r * A(widen(weight[c])));
  }
}
