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
  // Of a warp's lanes together, in its first.
  __device__ __forceinline__ Moments of_warp() const {
    Moments m = *this;
#pragma unroll
    for (int d = 16; d > 0; d >>= 1)
      m.join(Moments{__shfl_down_sync(0xffffffffu, m.count, d), __shfl_down_sync(0xffffffffu, m.mean, d),
                     __shfl_down_sync(0xffffffffu, m.squares, d)});
    return m;
  }
};

// The elements of this block's channel: every thread of the block takes its share, in packs where the addresses allow it.
struct Plane {
  u64 samples, channels, inner;
  __device__ __forceinline__ u64 at(u64 i) const { return (i / inner * channels + blockIdx.x) * inner + i % inner; }
  // Calls f(place, ..) with where N elements begin, or one, of which `packed` says which.
  template <int N, class P, class S> __device__ __forceinline__ void each(bool packed, P of_pack, S of_one) const {
    if (packed && inner % N == 0 && samples * inner < 1ull << 31) {
      u32 pieces = (u32)(inner / N), all = (u32)samples * pieces;
#pragma unroll 4
      for (u32 i = threadIdx.x; i < all; i += blockDim.x) {
        u32 sample = i / pieces;
        of_pack((sample * channels + blockIdx.x) * inner + (u64)(i - sample * pieces) * N);
      }
    } else {
      for (u64 i = threadIdx.x; i < samples * inner; i += blockDim.x) of_one(at(i));
    }
  }
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
KERNEL __launch_bounds__(1024) batch_norm_moments(u64 samples, u64 channels, A *parts_mean, A *parts_squares, VIEW input) {
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

// A block a channel. In one pass: what a thread finds is joined pack by pack.
KERNEL __launch_bounds__(1024) batch_norm_moments_of_planes(u64 samples, u64 channels, u64 inner, A *mean, A *squares, VIEW input) {
  const int N = Width<T>::value;
  __shared__ Moments warps[32];
  In<T> x(input);
  Moments m = {A(0), A(0), A(0)}, none = m;
  Plane{samples, channels, inner}.each<N>(
      x.packs<N>(),
      [&](u64 at) {
        Pack<T, N> pack;
        x.load(pack, x.place(at));
        Moments some = {A(N), A(0), A(0)};
#pragma unroll
        for (int j = 0; j < N; j++) some.mean += widen(pack[j]);
        some.mean *= A(1) / A(N);
#pragma unroll
        for (int j = 0; j < N; j++) some.squares += (widen(pack[j]) - some.mean) * (widen(pack[j]) - some.mean);
        m.join(some);
      },
      [&](u64 at) { m.add(widen(x.at(at))); });
  m = m.of_warp();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  m = (threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : none).of_warp();
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = m.mean, squares[blockIdx.x] = m.squares;
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

// In packs of one channel each, where there are such; elsewhere one by one.
template <class F> __device__ __forceinline__ void by_channel(u64 n, u64 channels, u64 inner, Out<T> out, In<T> x, F f) {
  const int N = Width<T>::value;
  if (inner % N == 0 && n < 1ull << 31 && x.packs<N>() && out.packs<N>()) {
    u32 pieces = (u32)(inner / N);
    for (u32 i = (u32)thread_index(); i < (u32)(n / N); i += (u32)thread_count()) {
      u32 c = i / pieces % (u32)channels;
      Pack<T, N> pack;
      x.load(pack, x.place((u64)i * N));
#pragma unroll
      for (int j = 0; j < N; j++) pack[j] = f(widen(pack[j]), c);
      pack.store(out.p + out.place((u64)i * N));
    }
  } else {
    for (u64 i = thread_index(); i < n; i += thread_count()) out.at(i) = f(widen(x.at(i)), i / inner % channels);
  }
}

KERNEL batch_norm_transform(u64 n, u64 channels, u64 inner, VIEW output, VIEW input, const A *mean, const A *invstd, const U *weight, const U *bias) {
  by_channel(n, channels, inner, Out<T>(output), In<T>(input),
             [=](A x, u64 c) { return narrow<T>((x - mean[c]) * invstd[c] * A(widen(weight[c])) + A(widen(bias[c]))); });
}

// In evaluation, by the running statistics.
KERNEL batch_norm_inference(u64 n, u64 channels, u64 inner, double eps, VIEW output, VIEW input, const U *running_mean, const U *running_var,
                            const U *weight, const U *bias) {
  by_channel(n, channels, inner, Out<T>(output), In<T>(input), [=](A x, u64 c) {
    A r = rsqrt_(A(widen(running_var[c])) + A(eps));
    return narrow<T>((x - A(widen(running_mean[c]))) * r * A(widen(weight[c])) + A(widen(bias[c])));
  });
}

// Of each channel: the sum of gradients, and of gradients times the deviation of x. inner is 1.
KERNEL __launch_bounds__(1024) batch_norm_sums(u64 samples, u64 channels, A *parts_dy, A *parts_product, VIEW gradient, VIEW input, const A *mean) {
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
KERNEL batch_norm_backward(u64 samples, u64 channels, VIEW output, VIEW gradient, VIEW input, const A *mean, const A *invstd, const U *weight,
                           const A *sum_dy, const A *sum_dy_xmu) {
  In<T> x(input), grad(gradient);
  Out<T> out(output);
  A share = A(1) / A(samples);
  for (u64 i = thread_index(); i < samples * channels; i += thread_count()) {
    u64 c = i % channels;
    out.at(i) = backward(widen(grad.at(i)), widen(x.at(i)), mean[c], invstd[c], widen(weight[c]), sum_dy[c] * share, sum_dy_xmu[c] * share);
  }
}

// A block a channel: all gradients that are wanted (not 0), without scratch. In evaluation (`fixed`) the statistics are the running ones, and
// do not depend on x.
KERNEL __launch_bounds__(1024) batch_norm_backward_of_planes(u64 samples, u64 channels, u64 inner, u32 fixed, double eps, u32 wanted, VIEW output, U *weight_grad, U *bias_grad,
                                     VIEW gradient, VIEW input, const A *mean, const A *invstd, const U *weight, const U *running_mean,
                                     const U *running_var) {
  const int N = Width<T>::value;
  Plane plane = {samples, channels, inner};
  In<T> x(input), grad(gradient);
  bool packs = x.packs<N>() && grad.packs<N>();
  A m = fixed ? A(widen(running_mean[blockIdx.x])) : mean[blockIdx.x];
  A r = fixed ? rsqrt_(A(widen(running_var[blockIdx.x])) + A(eps)) : invstd[blockIdx.x];
  A sum = A(0), product = A(0);
  plane.each<N>(
      packs,
      [&](u64 at) {
        Pack<T, N> g, v;
        grad.load(g, grad.place(at));
        x.load(v, x.place(at));
#pragma unroll
        for (int j = 0; j < N; j++) sum += widen(g[j]), product += widen(g[j]) * (widen(v[j]) - m);
      },
      [&](u64 at) {
        A g = widen(grad.at(at));
        sum += g;
        product += g * (widen(x.at(at)) - m);
      });
  sum = block_reduce<Sum>(sum);
  product = block_reduce<Sum>(product);
  if (threadIdx.x == 0 && weight_grad) weight_grad[blockIdx.x] = narrow<U>(product * r);
  if (threadIdx.x == 0 && bias_grad) bias_grad[blockIdx.x] = narrow<U>(sum);
  if (!wanted) return;
  Out<T> out(output);
  A share = fixed ? A(0) : A(1) / A(samples * inner), w = widen(weight[blockIdx.x]);
  plane.each<N>(
      packs && out.packs<N>(),
      [&](u64 at) {
        Pack<T, N> g, v;
        grad.load(g, grad.place(at));
        x.load(v, x.place(at));
#pragma unroll
        for (int j = 0; j < N; j++) g[j] = backward(widen(g[j]), widen(v[j]), m, r, w, sum * share, product * share);
        g.store(out.p + out.place(at));
      },
      [&](u64 at) { out.at(at) = backward(widen(grad.at(at)), widen(x.at(at)), m, r, w, sum * share, product * share); });
}
