//! The experiment language: mistakes with their messages, cases, plans.

mod mistakes;
