//! Steps that every demo can play, because they edit no manifest: deaths, drift, a manifest that is cut short, turnup and
//! removal. Each returns its evidence as text.

pub mod cuts;
pub mod drift;
pub mod kills;
pub mod turnup;
