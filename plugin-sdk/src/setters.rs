//! Setters of requests and configurations, for the crates of this workspace.

/// Writes one consuming setter per line, named like the field that it sets.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$attribute:meta])* $field:ident: $type:ty,)*) => {$(
        $(#[$attribute])*
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}
