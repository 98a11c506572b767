//! Runs declarative training experiments and writes, per phase and in bytes, the GPU memory they take: measured beside predicted.
//!
//! Reading order, and what each module must never know:
//!
//! 1. [`meta`]: shapes, element types, sizes. Facts without a device.
//! 2. [`whole`]: files that appear whole or not at all.
//! 3. [`record`]: phases, categories, rows; the words in which training and prediction speak.
//! 4. [`alloc`]: PyTorch's caching allocator as pure policy. Never a tensor or a device.
//! 5. [`gpu`]: the catalogue of GPU models.
//! 6. [`scratch`]: what libraries ask for besides their arguments, foreseen or written down.
//! 7. [`ops`] and [`optim`]: operators and optimizers, a rule (memory from shapes) and kernels (computation) each.
//! 8. [`model`]: from layers to a plan of operators over values.
//! 9. [`data`]: the input pipeline: samples from files, prepared by threads, as bytes. Never a device, a tensor or an experiment file.
//! 10. [`save`]: a run's state as a file to go on from. Never a device or a plan.
//! 11. [`experiment`]: the TOML language: every mistake of a file at once, or its cases, ready to run. Never a device.
//! 12. [`predict`]: memory from shapes alone. Never a device, a tensor or a kernel.
//! 13. [`device`]: what computes. It sees addresses and shapes, never a tensor.
//! 14. [`tensor`]: shapes over storages that the allocator hands out and gets back.
//! 15. [`exec`]: the context that kernels run in: tensors, library workspaces, shared primitives. Never a gradient or an operator.
//! 16. [`autograd`]: variables, the graph, backward. Never a plan or a layer.
//! 17. [`measure`]: what each number of a row is.
//! 18. [`train`]: the reference loop. Never the predictor.
//! 19. [`report`]: tables and files, from rows. Never how a row came about.
//! 20. [`cli`]: the commands, and the only place where prediction and training meet.
//!
//! The words, one for each thing:
//!
//! - An **experiment** is a TOML file; a **case** is one point of its sweep, or all of it where it sweeps over nothing.
//! - A **plan** is what a case is lowered to: **programs** of operators over **values**, and the loop's settings.
//! - A **step** of the optimizer has one or more **micro-steps**, each with a batch of its own; a **phase** of either ends with a **row**.
//! - A **rule** states what an operator does to memory, as a **recipe** of effects; a **kernel** does it, on tensors.
//! - A **segment** is memory that the allocator has from a device; **blocks** tile it. A **storage** is a block in use, a **tensor** a
//!   shape over one.
//! - **allocated** counts the blocks in use and **reserved** the segments, in bytes; **peak** is the most allocated since the row before.
//! - A **category** is the role that a storage plays: the categories of a row add up to what is allocated.
//! - **Scratch** is what an operator holds only while it runs. A library's **workspace** is what it works in: for one call, or for good.
//! - What the allocator gave while a case trained is **measured**, what the rules foresee is **predicted**; the **error** is the
//!   difference, predicted − measured.

pub mod alloc;
pub mod autograd;
pub mod cli;
pub mod data;
pub mod device;
pub mod exec;
pub mod experiment;
pub mod gpu;
pub mod measure;
pub mod meta;
pub mod model;
pub mod ops;
pub mod optim;
pub mod predict;
pub mod record;
pub mod report;
pub mod save;
pub mod scratch;
pub mod tensor;
pub mod train;
pub mod whole;
