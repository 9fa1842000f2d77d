//! What a device cannot run is refused before anything runs, with the limit.

use crate::common;

#[test]
fn a_buffer_over_the_limit_is_refused() {
    let module = common::lowered(common::parse(
        "te.func @large(%x: Tensor[(2000000000), float32]) -> Tensor[(2000000000), float32] {
           y[i < 2000000000] = %x[i] + 1f
           return y
         }",
    ));
    common::check_text(&module);
    match common::try_load(&module) {
        Err(errors) if errors.iter().any(|error| error.code == "E0914") => {
            common::missing("no Vulkan device: install mesa-vulkan-drivers and libvulkan1");
        }
        Err(errors) => {
            assert_eq!(errors[0].code, "E0915");
            let message = &errors[0].message;
            assert!(message.contains("a buffer of 8000000000 bytes"), "{message}");
        }
        Ok(_) => panic!("lavapipe takes buffers of 128 MiB at most"),
    }
}
