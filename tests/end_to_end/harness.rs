//! The harness, by the shipped binary and scripted runtimes: what is invalid goes nowhere.

mod attempts;
mod bound;
mod files;
mod guides;
mod hooks;
mod hostile;
mod interrupts;
mod leftovers;
mod pipelines;
mod settings;
mod sharing;
mod tools;
mod words;
