//! Many short texts in one piece of memory, each known by where it is.

/// Stands for no text.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// Texts one after the other, each after its length.
#[derive(Default)]
pub(super) struct Texts(Vec<u8>);

impl Texts {
    pub fn get(&self, at: u32) -> Option<&str> {
        if at == NO_TEXT {
            return None;
        }
        let (length, rest) = self.0.get(at as usize..)?.split_first_chunk()?;
        str::from_utf8(rest.get(..usize::from(u16::from_le_bytes(*length)))?).ok()
    }

    pub fn push(&mut self, text: &str) -> Option<u32> {
        let at = u32::try_from(self.0.len()).ok().filter(|at| *at != NO_TEXT)?;
        self.0.extend_from_slice(&u16::try_from(text.len()).ok()?.to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
        Some(at)
    }

    pub fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.capacity()
    }
}
