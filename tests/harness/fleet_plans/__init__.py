"""Plants faults in made-up fleets and counts what `gputop fleet plan` finds, rounds and costs.

python -m tests.harness.fleet_plans            # 64, 1,000 and 10,000 nodes; about half an hour
python -m tests.harness.fleet_plans --nodes 64 --trials 20
"""
