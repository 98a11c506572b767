// adaptive_avg_pool2d: each place of a plane of rows by columns is the mean of a stretch of height and one of width.

typedef math_t<T> A;

__device__ __forceinline__ u64 begin_of(u64 place, u64 size, u64 places) { return place * size / places; }
__device__ __forceinline__ u64 end_of(u64 place, u64 size, u64 places) { return ((place + 1) * size + places - 1) / places; }

// A thread an element of the output.
KERNEL adaptive_avg_pool2d_forward(u64 n, T *out, VIEW input, u64 height, u64 width, u64 rows, u64 columns) {
  In<T> x(input);
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 row = i / columns % rows, column = i % columns, plane = i / (rows * columns) * height * width;
    u64 top = begin_of(row, height, rows), bottom = end_of(row, height, rows);
    u64 left = begin_of(column, width, columns), right = end_of(column, width, columns);
    A sum = A(0);
    for (u64 y = top; y < bottom; y++)
      for (u64 x_ = left; x_ < right; x_++) sum += widen(x.at(plane + y * width + x_));
    out[i] = narrow<T>(sum / A((bottom - top) * (right - left)));
  }
}

// A thread an element of the input: it adds up, in order, its share of the places it belongs to.
KERNEL adaptive_avg_pool2d_backward(u64 n, T *out, const T *grad, u64 height, u64 width, u64 rows, u64 columns) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 y = i / width % height, x = i % width, plane = i / (height * width) * rows * columns;
    A sum = A(0);
    for (u64 row = begin_of(y, rows, height); row < rows && begin_of(row, height, rows) <= y; row++) {
      if (end_of(row, height, rows) <= y) continue;
      A tall = A(end_of(row, height, rows) - begin_of(row, height, rows));
      for (u64 column = begin_of(x, columns, width); column < columns && begin_of(column, width, columns) <= x; column++) {
        if (end_of(column, width, columns) <= x) continue;
        A wide = A(end_of(column, width, columns) - begin_of(column, width, columns));
        sum += widen(grad[plane + row * columns + column]) / (tall * wide);
      }
    }
    out[i] = narrow<T>(sum);
  }
}
