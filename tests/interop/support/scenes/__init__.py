"""Groups in a situation that several tests and measuring programs begin with, and what that situation cost them."""
