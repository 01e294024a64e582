//! The built plugin from outside: a process per call, as runtimes and main plugins make them.

mod blocks;
mod carving;
mod causes;
mod clock;
mod corruption;
mod counts;
mod damage;
mod disk_full;
mod disturbed;
mod faults;
mod field;
mod host_local;
mod imports;
mod kill;
mod kill_repair;
mod machines;
mod main_plugins;
mod power;
mod refusals;
mod scale;
mod stopped;
mod surroundings;
mod together;
mod versions;
