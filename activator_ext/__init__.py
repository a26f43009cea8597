"""Pilotlight's controller, portal and adapters: decides when a model is warm and where it sleeps."""
