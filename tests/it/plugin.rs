//! The built plugin from outside: a process per call, as runtimes and main plugins make them.

mod blocks;
mod carving;
mod causes;
mod counts;
mod damage;
mod disturbed;
mod faults;
mod field;
mod host_local;
mod kill;
mod machines;
mod main_plugins;
mod refusals;
mod surroundings;
mod together;
