"""What tests and benches share: real and simulated servers, published and recorded loads."""
