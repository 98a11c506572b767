// max_pool2d: the largest element of each window of a plane, and where in the plane it lies. What is not a number counts as largest.

typedef math_t<T> A;

// Positions in I, as narrow as the sizes allow: what is divided is most of the work.
template <class I>
__device__ __forceinline__ void forward(I n, T *out, i64 *indices, In<T> x, I height, I width, I rows, I columns, I tall, I wide, I down,
                                        I across, I above, I before) {
  for (I i = (I)thread_index(); i < n; i += (I)thread_count()) {
    I line = i / columns, plane = line / rows, row_ = line - plane * rows, column_ = i - line * columns;
    I top = row_ * down, left = column_ * across;
    I first = top < above ? 0 : top - above, begin = left < before ? 0 : left - before;
    I bottom = min(height, top + tall - above), right = min(width, left + wide - before);
    u64 base = (u64)plane * height * width;
    I at = first * width + begin;
    A most = Max::zero<A>();
    for (I row = first; row < bottom; row++)
      for (I column = begin; column < right; column++) {
        A value = widen(x.at(base + row * width + column));
        if (value > most || value != value) most = value, at = row * width + column;
      }
    out[i] = narrow<T>(most);
    indices[i] = (i64)at;
  }
}

template <class I>
__device__ __forceinline__ void backward(I n, T *out, const T *grad, const i64 *indices, I height, I width, I rows, I columns, I tall, I wide,
                                         I down, I across, I above, I before) {
  for (I i = (I)thread_index(); i < n; i += (I)thread_count()) {
    I line = i / width, plane = line / height, y_ = line - plane * height, x_ = i - line * width;
    I y = y_ + above, x = x_ + before, at = y_ * width + x_;
    I first = y < tall ? 0 : (y - tall) / down + 1, last = min(rows, y / down + 1);
    I begin = x < wide ? 0 : (x - wide) / across + 1, end = min(columns, x / across + 1);
    u64 base = (u64)plane * rows * columns;
    A sum = A(0);
    for (I row = first; row < last; row++)
      for (I column = begin; column < end; column++) {
        u64 of = base + row * columns + column;
        if ((I)indices[of] == at) sum += widen(grad[of]);
      }
    out[i] = narrow<T>(sum);
  }
}

// So few that twice as many, which a walk over them may come to, are still counted in 32 bits.
__device__ __forceinline__ bool few(u64 n, u64 inputs) { return n < 1ull << 30 && inputs < 1ull << 30; }

// A thread an element of the output.
KERNEL max_pool2d_forward(u64 n, T *out, i64 *indices, VIEW input, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide, u64 down,
                          u64 across, u64 above, u64 before) {
  if (few(n, height * width)) forward<u32>(n, out, indices, In<T>(input), height, width, rows, columns, tall, wide, down, across, above, before);
  else forward<u64>(n, out, indices, In<T>(input), height, width, rows, columns, tall, wide, down, across, above, before);
}

// A thread an element of the input: it adds up, in order, the gradients of the windows that it was the largest of.
KERNEL max_pool2d_backward(u64 n, T *out, const T *grad, const i64 *indices, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide,
                           u64 down, u64 across, u64 above, u64 before) {
  if (few(n, height * width)) backward<u32>(n, out, grad, indices, height, width, rows, columns, tall, wide, down, across, above, before);
  else backward<u64>(n, out, grad, indices, height, width, rows, columns, tall, wide, down, across, above, before);
}
