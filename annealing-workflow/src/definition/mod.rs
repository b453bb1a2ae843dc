//! Workflows as data: machines, their actions and guards, and the exploration of all states they can reach.
