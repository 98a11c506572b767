// Copies from one layout or element type to another.

template <class A, class B> struct Same { static const bool value = false; };
template <class A> struct Same<A, A> { static const bool value = true; };

template <bool same> struct Convert {
  template <class A> static __device__ __forceinline__ U from(A x) { return narrow<U>(widen(x)); }
};
template <> struct Convert<true> {
  static __device__ __forceinline__ U from(U x) { return x; }
};
#define CONVERT(x) Convert<Same<T, U>::value>::from(x)

// Into elements that lie one after another.
extern "C" __global__ void copy_contiguous(u64 n, U *out, const __grid_constant__ View x) {
  map1(n, out, in<T>(x), [](T x) { return CONVERT(x); });
}

// Into any layout.
extern "C" __global__ void copy_strided(u64 n, const __grid_constant__ View out, const __grid_constant__ View x) {
  U *p = reinterpret_cast<U *>(out.address);
  for (u64 i = thread_index(); i < n; i += thread_count()) p[out.rank == 0 ? i * out.step : offset(out, i)] = CONVERT(in<T>(x).at(i));
}
