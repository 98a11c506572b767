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

KERNEL copy(u64 n, VIEW out, VIEW x) {
  map1(n, Out<U>(out), In<T>(x), [](T x) { return CONVERT(x); });
}
