//! What the rig shares with `portreeve-micro`: where figures are kept.

pub mod results;
