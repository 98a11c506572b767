//! The registry: every operator there is, as a closed enum. A new operator is a folder, its line in `mod.rs` and one here.

use super::rule::OpRule;

/// Calls `$then!` with the list of all operators, `folder::Struct` each: for whoever needs one entry an operator.
macro_rules! with_operators {
    ($then:ident) => {
        $then! {
            linear::Linear,
            conv2d::Conv2d,
            relu::Relu,
            gelu::Gelu,
            silu::Silu,
            sigmoid::Sigmoid,
            tanh::Tanh,
            softmax::Softmax,
            log_softmax::LogSoftmax,
            dropout::Dropout,
            max_pool2d::MaxPool2d,
            avg_pool2d::AvgPool2d,
            adaptive_avg_pool2d::AdaptiveAvgPool2d,
            zeros::Zeros,
            copy_into::CopyInto,
            rnn::Rnn,
            view::View,
            add::Add,
            mul::Mul,
            div_scalar::DivScalar,
            add_scalar::AddScalar,
            square::Square,
            rsqrt::Rsqrt,
            mean_last::MeanLast,
            to_copy::ToCopy,
            batch_norm::BatchNorm,
            layer_norm::LayerNorm,
            rms_norm::RmsNorm,
            sum::Sum,
            mean::Mean,
            mse_loss::MseLoss,
            bce_with_logits::BceWithLogits,
            nll_loss::NllLoss,
            group_norm::GroupNorm,
            embedding::Embedding,
            slice::Slice,
            select::Select,
            split::Split,
            transpose::Transpose,
            contiguous::Contiguous,
            expand::Expand,
            mul_scalar::MulScalar,
            bmm::Bmm,
            causal_mask::CausalMask,
            pad_last::PadLast,
            scaled_dot_product_attention::ScaledDotProductAttention,
        }
    };
}
pub(crate) use with_operators;

macro_rules! define_operator {
    ($($folder:ident::$name:ident),+ $(,)?) => {
        /// An operator with its settings. Data only: what it does to memory is its rule's, how it computes its kernel's.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Operator {
            $(#[doc = concat!("See [`", stringify!($folder), "`](super::", stringify!($folder), ").")]
            $name(super::$folder::rule::$name)),+
        }

        impl Operator {
            /// Every operator's folder: the names of all rules.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($folder)),+];

            /// The operator's memory rule.
            #[must_use]
            pub fn rule(&self) -> &dyn OpRule {
                match self { $(Self::$name(op) => op),+ }
            }
        }

        $(impl From<super::$folder::rule::$name> for Operator {
            fn from(op: super::$folder::rule::$name) -> Self { Self::$name(op) }
        })+
    };
}
with_operators!(define_operator);
