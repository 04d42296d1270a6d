//! What can stand in a key.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;

use uuid::Uuid;

use super::{KeyPart, KeyWriter};

impl KeyPart for str {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.text(self);
    }
}

impl KeyPart for String {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.text(self);
    }
}

impl KeyPart for char {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.text(self.encode_utf8(&mut [0; 4]));
    }
}

impl KeyPart for bool {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.text(if *self { "true" } else { "false" });
    }
}

impl KeyPart for Uuid {
    fn render(&self, key: &mut KeyWriter<'_>) {
        key.text(self.as_hyphenated().encode_lower(&mut Self::encode_buffer()));
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl KeyPart for $integer {
            fn render(&self, key: &mut KeyWriter<'_>) {
                // A `KeyWriter` does not fail; it counts what does not fit.
                let _ = write!(key, "{self}");
            }
        }

        impl KeyPart for NonZero<$integer> {
            fn render(&self, key: &mut KeyWriter<'_>) {
                self.get().render(key);
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $pointer {
            fn render(&self, key: &mut KeyWriter<'_>) {
                T::render(self, key);
            }
        }
    )*};
}

pointers!(&T &mut T Box<T> Rc<T> Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn render(&self, key: &mut KeyWriter<'_>) {
        T::render(self, key);
    }
}
