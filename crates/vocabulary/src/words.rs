//! Enums that have a word each: in records, on the wire, in configuration files. The words stand beside the variants,
//! once.

/// Declares an enum whose variants have words: `ALL`, `as_str`, `parse` and `Display` come with it.
///
/// ```
/// portreeve_vocabulary::words! {
///     /// What a light shows.
///     pub enum Light {
///         /// Wait.
///         Red = "red",
///         /// Go.
///         Green = "green",
///     }
/// }
/// assert_eq!(Light::parse("green"), Some(Light::Green));
/// assert_eq!((Light::Red.as_str(), Light::ALL.len(), Light::parse("Red")), ("red", 2, None));
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $visibility enum $name {
            $($(#[$variant_attribute])* $variant,)*
        }

        impl $name {
            /// Every one, in the order of declaration.
            pub const ALL: [Self; [$($word,)*].len()] = [$(Self::$variant,)*];

            /// Its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The one with this word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
