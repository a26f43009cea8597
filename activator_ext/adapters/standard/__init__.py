"""Standard mode: floors of an InferenceService whose Deployment KServe leaves to an outside autoscaler, through KEDA.

`objects` is what is kept of the cluster's objects, `plan` what a service needs (pure), `manifest` the ScaledObject of
ours, `actuator` what is done about it.
"""
