"""What runs inside the serving image: engines, their readiness and the host that supervises them."""
