// group_norm: a row is a group of channels of one sample, which lies in one stretch. A warp or a block a row.

typedef math_t<T> A;

KERNEL group_norm_forward(
    u64 rows, u64 columns, u32 wide, u64 groups, u64 channels, u64 positions, double eps, T *out, T *mean, T *rstd, const T *x,
    const T *weight, const T *bias) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns, first = row.index % groups * (channels / groups);
  A sum = A(0), squares = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) sum += widen(x[begin + j]);
  A m = row.reduce<Sum>(sum) / A(columns);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A d = widen(x[begin + j]) - m;
    squares += d * d;
  }
  A r = rsqrt_(row.reduce<Sum>(squares) / A(columns) + A(eps));
  for (u64 j = row.lane; j < columns; j += row.width) {
    u64 channel = first + j / positions;
    out[begin + j] = narrow<T>((widen(x[begin + j]) - m) * r * widen(weight[channel]) + widen(bias[channel]));
  }
  if (row.lane == 0) mean[row.index] = narrow<T>(m), rstd[row.index] = narrow<T>(r);
}

KERNEL group_norm_backward(
    u64 rows, u64 columns, u32 wide, u64 groups, u64 channels, u64 positions, T *out, const T *grad, const T *x, const T *weight,
    const T *mean, const T *rstd) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns, first = row.index % groups * (channels / groups);
  A m = widen(mean[row.index]), r = widen(rstd[row.index]), share = A(0), slope = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A g = widen(grad[begin + j]) * widen(weight[first + j / positions]);
    share += g;
    slope += g * (widen(x[begin + j]) - m) * r;
  }
  share = row.reduce<Sum>(share) / A(columns);
  slope = row.reduce<Sum>(slope) / A(columns);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A g = widen(grad[begin + j]) * widen(weight[first + j / positions]);
    out[begin + j] = narrow<T>(r * (g - share - (widen(x[begin + j]) - m) * r * slope));
  }
}

// A block a channel: over all samples and positions.
KERNEL group_norm_parameters(
    u64 batch, u64 groups, u64 channels, u64 positions, T *of_weight, T *of_bias, const T *grad, const T *x, const T *mean, const T *rstd) {
  u64 channel = blockIdx.x, group = channel / (channels / groups);
  A products = A(0), sums = A(0);
  for (u64 i = threadIdx.x; i < batch * positions; i += blockDim.x) {
    u64 sample = i / positions, at = (sample * channels + channel) * positions + i % positions, row = sample * groups + group;
    A g = widen(grad[at]);
    sums += g;
    products += g * (widen(x[at]) - widen(mean[row])) * widen(rstd[row]);
  }
  products = block_reduce<Sum>(products);
  sums = block_reduce<Sum>(sums);
  if (threadIdx.x == 0) {
    if (of_weight) of_weight[channel] = narrow<T>(products);
    if (of_bias) of_bias[channel] = narrow<T>(sums);
  }
}
