// avg_pool2d: the mean of each window of a plane, what lies around the plane counted as zeros.

typedef math_t<T> A;

// A thread an element of the output.
KERNEL avg_pool2d_forward(u64 n, T *out, VIEW input, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide, u64 down, u64 across,
                          u64 above, u64 before) {
  In<T> x(input);
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    i64 top = (i64)(i / columns % rows * down) - (i64)above, left = (i64)(i % columns * across) - (i64)before;
    u64 bottom = min(height, (u64)(top + (i64)tall)), right = min(width, (u64)(left + (i64)wide));
    u64 first = (u64)max(top, 0ll), begin = (u64)max(left, 0ll), plane = i / (rows * columns) * height * width;
    A sum = A(0);
    for (u64 row = first; row < bottom; row++)
      for (u64 column = begin; column < right; column++) sum += widen(x.at(plane + row * width + column));
    out[i] = narrow<T>(sum / A(tall * wide));
  }
}

// A thread an element of the input: it adds up, in order, its share of the windows over it.
KERNEL avg_pool2d_backward(u64 n, T *out, const T *grad, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide, u64 down, u64 across,
                           u64 above, u64 before) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 y = i / width % height + above, x = i % width + before, plane = i / (height * width) * rows * columns;
    u64 first = y < tall ? 0 : (y - tall) / down + 1, last = min(rows, y / down + 1);
    u64 begin = x < wide ? 0 : (x - wide) / across + 1, end = min(columns, x / across + 1);
    A sum = A(0);
    for (u64 row = first; row < last; row++)
      for (u64 column = begin; column < end; column++) sum += widen(grad[plane + row * columns + column]) / A(tall * wide);
    out[i] = narrow<T>(sum);
  }
}
