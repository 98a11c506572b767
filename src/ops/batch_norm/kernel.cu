// batch_norm of [samples, channels, inner]: T is the input's type, U that of weight, bias and running statistics.
//
// Matrices (inner is 1): a block has 32 channels and 32 samples at a time, and blocks in y may share the samples. What blocks leave are
// parts, joined in order by a kernel of its own: [part][channel], at two addresses. Planes: a block has a channel.

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

// The elements of this block's channel.
struct Plane {
  u64 channels, inner;
  __device__ __forceinline__ Plane(u64 channels, u64 inner) : channels(channels), inner(inner) {}
  __device__ __forceinline__ u64 at(u64 i) const { return (i / inner * channels + blockIdx.x) * inner + i % inner; }
};

// The samples of part `part` of `parts`.
struct Range {
  u64 begin, end;
  __device__ __forceinline__ Range(u64 samples, u64 part, u64 parts) {
    u64 chunk = (samples + parts - 1) / parts;
    begin = min(samples, chunk * part);
    end = min(samples, begin + chunk);
  }
};

// inner is 1.
KERNEL batch_norm_moments(u64 samples, u64 channels, A *parts_mean, A *parts_squares, VIEW input) {
  __shared__ Moments tile[32][32];
  In<T> x(input);
  u64 channel = (u64)blockIdx.x * 32 + threadIdx.x;
  Range range(samples, blockIdx.y, gridDim.y);
  Moments m = {A(0), A(0), A(0)};
  if (channel < channels)
    for (u64 r = range.begin + threadIdx.y; r < range.end; r += 32) m.add(widen(x.at(r * channels + channel)));
  tile[threadIdx.y][threadIdx.x] = m;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int i = 1; i < 32; i++) m.join(tile[i][threadIdx.x]);
  parts_mean[blockIdx.y * channels + channel] = m.mean;
  parts_squares[blockIdx.y * channels + channel] = m.squares;
}

// A block a channel.
KERNEL batch_norm_moments_of_planes(u64 samples, u64 channels, u64 inner, A *mean, A *squares, VIEW input) {
  Plane plane(channels, inner);
  In<T> x(input);
  A sum = A(0), deviations = A(0);
  for (u64 i = threadIdx.x; i < samples * inner; i += blockDim.x) sum += widen(x.at(plane.at(i)));
  A m = block_reduce<Sum>(sum) / A(samples * inner);
  for (u64 i = threadIdx.x; i < samples * inner; i += blockDim.x) {
    A d = widen(x.at(plane.at(i))) - m;
    deviations += d * d;
  }
  deviations = block_reduce<Sum>(deviations);
  if (threadIdx.x == 0) mean[blockIdx.x] = m, squares[blockIdx.x] = deviations;
}

// Joins the parts, keeps mean and reciprocal deviation, and moves the running statistics. A single part may lie where the results go.
KERNEL batch_norm_statistics(u64 samples, u64 channels, u64 inner, u64 parts, double eps, double momentum, A *mean, A *invstd,
                             U *running_mean, U *running_var, i64 *batches, const A *parts_mean, const A *parts_squares) {
  u64 c = thread_index();
  if (c == 0) batches[0] += 1;
  if (c >= channels) return;
  Moments m = {A(0), A(0), A(0)};
  for (u64 i = 0; i < parts; i++) {
    Range range(samples, i, parts);
    m.join(Moments{A((range.end - range.begin) * inner), parts_mean[i * channels + c], parts_squares[i * channels + c]});
  }
  mean[c] = m.mean;
  invstd[c] = rsqrt_(m.squares / m.count + A(eps));
  running_mean[c] = narrow<U>(A(1 - momentum) * A(widen(running_mean[c])) + A(momentum) * m.mean);
  running_var[c] = narrow<U>(A(1 - momentum) * A(widen(running_var[c])) + A(momentum) * (m.squares / (m.count - 1)));
}

KERNEL batch_norm_transform(u64 n, u64 channels, u64 inner, T *out, VIEW input, const A *mean, const A *invstd, const U *weight, const U *bias) {
  In<T> x(input);
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 c = i / inner % channels;
    out[i] = narrow<T>((widen(x.at(i)) - mean[c]) * invstd[c] * A(widen(weight[c])) + A(widen(bias[c])));
  }
}

// In evaluation, by the running statistics.
KERNEL batch_norm_inference(u64 n, u64 channels, u64 inner, double eps, T *out, VIEW input, const U *running_mean, const U *running_var,
                            const U *weight, const U *bias) {
  In<T> x(input);
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 c = i / inner % channels;
    A r = rsqrt_(A(widen(running_var[c])) + A(eps));
    out[i] = narrow<T>((widen(x.at(i)) - A(widen(running_mean[c]))) * r * A(widen(weight[c])) + A(widen(bias[c])));
  }
}

// Of each channel: the sum of gradients, and of gradients times the deviation of x. inner is 1.
KERNEL batch_norm_sums(u64 samples, u64 channels, A *parts_dy, A *parts_product, VIEW gradient, VIEW input, const A *mean) {
  __shared__ A sums[32][33], products[32][33];
  In<T> x(input), grad(gradient);
  u64 channel = (u64)blockIdx.x * 32 + threadIdx.x;
  Range range(samples, blockIdx.y, gridDim.y);
  A sum = A(0), product = A(0);
  if (channel < channels) {
    for (u64 r = range.begin + threadIdx.y; r < range.end; r += 32) {
      A g = widen(grad.at(r * channels + channel));
      sum += g;
      product += g * (widen(x.at(r * channels + channel)) - mean[channel]);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  products[threadIdx.y][threadIdx.x] = product;
  __syncthreads();
  sum = warp_reduce<Sum>(sums[threadIdx.x][threadIdx.y]);
  product = warp_reduce<Sum>(products[threadIdx.x][threadIdx.y]);
  channel = (u64)blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x != 0 || channel >= channels) return;
  parts_dy[blockIdx.y * channels + channel] = sum;
  parts_product[blockIdx.y * channels + channel] = product;
}

// Joins the parts, and gives the gradients of weight and bias, where they are wanted (not 0).
KERNEL batch_norm_parameters(u64 channels, u64 parts, A *sum_dy, A *sum_dy_xmu, U *weight_grad, U *bias_grad, const A *invstd,
                             const A *parts_dy, const A *parts_product) {
  u64 c = thread_index();
  if (c >= channels) return;
  A sum = A(0), product = A(0);
  for (u64 i = 0; i < parts; i++) {
    sum += parts_dy[i * channels + c];
    product += parts_product[i * channels + c];
  }
  sum_dy[c] = sum;
  sum_dy_xmu[c] = product;
  if (weight_grad) weight_grad[c] = narrow<U>(product * invstd[c]);
  if (bias_grad) bias_grad[c] = narrow<U>(sum);
}

__device__ __forceinline__ T backward(A g, A x, A mean, A invstd, A weight, A mean_dy, A mean_dy_xmu) {
  return narrow<T>((g - mean_dy - (x - mean) * invstd * invstd * mean_dy_xmu) * invstd * weight);
}

// inner is 1.
KERNEL batch_norm_backward(u64 samples, u64 channels, T *out, VIEW gradient, VIEW input, const A *mean, const A *invstd, const U *weight,
                           const A *sum_dy, const A *sum_dy_xmu) {
  In<T> x(input), grad(gradient);
  A share = A(1) / A(samples);
  for (u64 i = thread_index(); i < samples * channels; i += thread_count()) {
    u64 c = i % channels;
    out[i] = backward(widen(grad.at(i)), widen(x.at(i)), mean[c], invstd[c], widen(weight[c]), sum_dy[c] * share, sum_dy_xmu[c] * share);
  }
}

// A block a channel: all gradients that are wanted (not 0), without scratch. In evaluation (`fixed`) the statistics are the running ones, and
// do not depend on x.
KERNEL batch_norm_backward_of_planes(u64 samples, u64 channels, u64 inner, u32 fixed, double eps, T *out, U *weight_grad, U *bias_grad,
                                     VIEW gradient, VIEW input, const A *mean, const A *invstd, const U *weight, const U *running_mean,
                                     const U *running_var) {
  Plane plane(channels, inner);
  In<T> x(input), grad(gradient);
  u64 n = samples * inner;
  A m = fixed ? A(widen(running_mean[blockIdx.x])) : mean[blockIdx.x];
  A r = fixed ? rsqrt_(A(widen(running_var[blockIdx.x])) + A(eps)) : invstd[blockIdx.x];
  A sum = A(0), product = A(0);
  for (u64 i = threadIdx.x; i < n; i += blockDim.x) {
    A g = widen(grad.at(plane.at(i)));
    sum += g;
    product += g * (widen(x.at(plane.at(i))) - m);
  }
  sum = block_reduce<Sum>(sum);
  product = block_reduce<Sum>(product);
  if (threadIdx.x == 0 && weight_grad) weight_grad[blockIdx.x] = narrow<U>(product * r);
  if (threadIdx.x == 0 && bias_grad) bias_grad[blockIdx.x] = narrow<U>(sum);
  if (!out) return;
  A share = fixed ? A(0) : A(1) / A(n), w = widen(weight[blockIdx.x]);
  for (u64 i = threadIdx.x; i < n; i += blockDim.x) {
    u64 at = plane.at(i);
    out[at] = backward(widen(grad.at(at)), widen(x.at(at)), m, r, w, sum * share, product * share);
  }
}
