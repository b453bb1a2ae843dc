#![doc = include_str!("../README.md")]

pub mod cron;
pub mod definition;
