//! Rows on their way into tables of several nodes, and writes that run on several. It does not know where rows come from.

pub mod bulk;
mod by_key;
pub mod capture;
mod catch;
pub mod change_from;
mod change_split;
mod compared;
pub mod copy_lines;
pub mod copy_skipped;
pub mod in_turn;
pub mod insert;
pub mod insert_select;
pub mod modify;
pub mod move_rows;
pub mod reference;
mod sent;
mod sent_tables;
pub mod sink;
mod stop_writers;
