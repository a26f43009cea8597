"""The controller in a cluster: watches, decides with the same core as local mode, and carries out floors."""
