// conv2d with one input channel a group (`multiple` output channels each), contiguous.

typedef math_t<T> A;

#define GEOMETRY                                                                                                                           \
  u64 multiple, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide, u64 down, u64 across, u64 above, u64 before,             \
      u64 down_apart, u64 across_apart

// A thread an element of the output. Where there is no bias, it is 0.
KERNEL conv_depthwise2d_forward(u64 n, u64 channels, T *out, const T *x, const T *weight, const T *bias, GEOMETRY) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 column = i % columns, row = i / columns % rows, channel = i / (columns * rows) % channels, sample = i / (columns * rows * channels);
    const T *plane = x + (sample * (channels / multiple) + channel / multiple) * height * width;
    const T *window = weight + channel * tall * wide;
    A sum = bias ? A(widen(bias[channel])) : A(0);
    for (u64 a = 0; a < tall; a++) {
      i64 y = (i64)(row * down + a * down_apart) - (i64)above;
      if (y < 0 || y >= (i64)height) continue;
      for (u64 b = 0; b < wide; b++) {
        i64 x_ = (i64)(column * across + b * across_apart) - (i64)before;
        if (x_ >= 0 && x_ < (i64)width) sum += widen(plane[y * width + x_]) * widen(window[a * wide + b]);
      }
    }
    out[i] = narrow<T>(sum);
  }
}

// A thread an element of the input: it adds up, in order, over the windows that hold it. `channels` are the output's.
KERNEL conv_depthwise2d_grad_input(u64 n, u64 channels, T *out, const T *grad, const T *weight, GEOMETRY) {
  u64 inputs = channels / multiple;
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 x = i % width + before, y = i / width % height + above, channel = i / (width * height) % inputs, sample = i / (width * height * inputs);
    A sum = A(0);
    for (u64 m = 0; m < multiple; m++) {
      const T *plane = grad + (sample * channels + channel * multiple + m) * rows * columns;
      const T *window = weight + (channel * multiple + m) * tall * wide;
      for (u64 a = 0; a < tall; a++) {
        u64 shift = a * down_apart;
        if (y < shift || (y - shift) % down || (y - shift) / down >= rows) continue;
        for (u64 b = 0; b < wide; b++) {
          u64 aside = b * across_apart;
          if (x < aside || (x - aside) % across || (x - aside) / across >= columns) continue;
          sum += widen(plane[(y - shift) / down * columns + (x - aside) / across]) * widen(window[a * wide + b]);
        }
      }
    }
    out[i] = narrow<T>(sum);
  }
}

// A block an element of the weight: over all samples and places.
KERNEL conv_depthwise2d_grad_weight(u64 samples, u64 channels, T *out, const T *x, const T *grad, GEOMETRY) {
  u64 b = blockIdx.x % wide, a = blockIdx.x / wide % tall, channel = blockIdx.x / (wide * tall);
  u64 places = rows * columns;
  A sum = A(0);
  for (u64 i = threadIdx.x; i < samples * places; i += blockDim.x) {
    u64 sample = i / places, row = i % places / columns, column = i % columns;
    i64 y = (i64)(row * down + a * down_apart) - (i64)above, x_ = (i64)(column * across + b * across_apart) - (i64)before;
    if (y < 0 || y >= (i64)height || x_ < 0 || x_ >= (i64)width) continue;
    const T *plane = x + (sample * (channels / multiple) + channel / multiple) * height * width;
    sum += widen(plane[y * width + x_]) * widen(grad[(sample * channels + channel) * places + i % places]);
  }
  sum = block_reduce<Sum>(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = narrow<T>(sum);
}
