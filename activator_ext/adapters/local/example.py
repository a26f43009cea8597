"""The example that documents PrewarmPolicy: every key with its default. A test holds it against the schema."""

EXAMPLE_POLICY = """\
# When a model is warm, and what an idle one is worth. Every key of spec is optional.
# Durations: 45s, 10m, 1h30m, 28d.
apiVersion: pilotlight.dev/v1alpha1
kind: PrewarmPolicy
metadata:
  name: chat
  namespace: team-a                  # optional, default: default
spec:
  # The service that this policy is for, in the same namespace. Only a policy named `default` has none: it is for each
  # service of its namespace that has no policy of its own.
  serviceRef:
    kind: InferenceService           # optional, default: InferenceService
    name: chat                       # required with serviceRef

  # The least and the most replicas, within the InferenceService's own minReplicas and maxReplicas.
  bounds:
    min: 0                           # optional, default: minReplicas (1 where that is absent, as in KServe)
    max: 3                           # optional, default: maxReplicas, else the larger of 1 and min

  # How many idle seconds one cold start is worth: an idle replica is let go after so long.
  coldStartCost: 10m                 # optional, default: 10m

  # Recurring windows of warmth. Cron has five fields; the time zone is an IANA name.
  schedules:                         # optional, default: []
    - name: office                   # required
      timeZone: Europe/Madrid        # optional, default: UTC
      readyBy: "0 9 * * 1-5"         # this or start: warm by that minute
      until: "0 18 * * 1-5"          # required
      replicas: 2                    # optional, default: 1
    - name: nightly-batch
      start: "30 1 * * *"            # this or readyBy: asked for at that minute
      until: "0 3 * * *"

  # How many requests, waiting and running, one replica is meant to carry.
  queue:
    target: 5                        # optional, default: containerConcurrency, else 5
    sources: [knative, engine]       # optional, default: all that there are; in a cluster only
    # prometheus:                    # optional, default: none; instead of sources, in a cluster only
    #   server: http://prometheus:9090
    #   query: sum(my_queue_length)

  # What a start is expected to take until enough starts of this service were seen.
  leadTime:
    prior: 2m                        # optional, default: 2m

  # The prompt whose answer at temperature 0 proves an engine before it is given requests.
  golden:
    prompt: "Count to three:"        # optional, default: one of Pilotlight's own
    maxTokens: 4                     # optional, default: 8
    # tokens: [16, 17, 18]           # optional, default: learned from the model's first proven start

  # The next three are checked in local mode, and nothing acts on them there yet.
  objective:                         # optional, default: none
    readyRatio: 0.99                 # optional, default: 0.99
    firstTokenSeconds: 10            # optional, default: none
    window: 28d                      # optional, default: 28d
    monthlyBudget: 300 EUR           # optional, default: none
  forecast:                          # optional, default: none
    mode: Observe                    # optional, default: Observe (Observe or Act)
  parking:                           # optional, default: none
    level: Auto                      # optional, default: Auto (Auto, L1, L2 or None)
    pool: shared-a100                # optional, default: none
"""
