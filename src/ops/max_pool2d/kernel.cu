// max_pool2d: the largest element of each window of a plane, and where in the plane it lies. What is not a number counts as largest.

typedef math_t<T> A;

// A thread an element of the output.
KERNEL max_pool2d_forward(u64 n, T *out, i64 *indices, VIEW input, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide, u64 down,
                          u64 across, u64 above, u64 before) {
  In<T> x(input);
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    i64 top = (i64)(i / columns % rows * down) - (i64)above, left = (i64)(i % columns * across) - (i64)before;
    u64 bottom = min(height, (u64)(top + (i64)tall)), right = min(width, (u64)(left + (i64)wide));
    u64 first = (u64)max(top, 0ll), begin = (u64)max(left, 0ll), plane = i / (rows * columns) * height * width;
    u64 at = first * width + begin;
    A most = Max::zero<A>();
    for (u64 row = first; row < bottom; row++)
      for (u64 column = begin; column < right; column++) {
        A value = widen(x.at(plane + row * width + column));
        if (value > most || value != value) most = value, at = row * width + column;
      }
    out[i] = narrow<T>(most);
    indices[i] = (i64)at;
  }
}

// A thread an element of the input: it adds up, in order, the gradients of the windows that it was the largest of.
KERNEL max_pool2d_backward(u64 n, T *out, const T *grad, const i64 *indices, u64 height, u64 width, u64 rows, u64 columns, u64 tall, u64 wide,
                           u64 down, u64 across, u64 above, u64 before) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 y = i / width % height + above, x = i % width + before, at = i % (height * width), plane = i / (height * width) * rows * columns;
    u64 first = y < tall ? 0 : (y - tall) / down + 1, last = min(rows, y / down + 1);
    u64 begin = x < wide ? 0 : (x - wide) / across + 1, end = min(columns, x / across + 1);
    A sum = A(0);
    for (u64 row = first; row < last; row++)
      for (u64 column = begin; column < end; column++)
        if ((u64)indices[plane + row * columns + column] == at) sum += widen(grad[plane + row * columns + column]);
    out[i] = narrow<T>(sum);
  }
}
