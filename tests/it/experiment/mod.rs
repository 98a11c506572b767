//! The experiment language: mistakes with their messages, cases, plans, the schema.

mod cases;
mod lowering;
mod mistakes;
mod mutations;
mod schema;
