//! From an operator to its kernel. Apart from the registry, so that a rule's users cannot reach a kernel through it.

use super::kernel::OpKernel;
use super::operator::{Operator, with_operators};

macro_rules! define_kernels {
    ($($folder:ident::$name:ident),+ $(,)?) => {
        impl Operator {
            /// The operator's deed.
            #[must_use]
            pub fn kernel(&self) -> &dyn OpKernel {
                match self { $(Self::$name(op) => op),+ }
            }
        }
    };
}
with_operators!(define_kernels);
