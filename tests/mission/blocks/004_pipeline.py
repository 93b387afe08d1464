# -----
# 1. Define pipeline-parallel model
# -----
def create_pipeline_model(num_stages=2):
    """Create a pipeline model with proper layer specifications"""
    # Split the model into a sequence of layers
    layers = [
        LayerSpec(nn.Linear, 128, 256), # Stage 0
        LayerSpec(nn.ReLU),             # Stage 0
        LayerSpec(nn.Linear, 256, 512), # Stage 0
        LayerSpec(nn.ReLU),             # Stage 0
        LayerSpec(nn.Linear, 512, 256), # Stage 1
        LayerSpec(nn.ReLU),             # Stage 1
        LayerSpec(nn.Linear, 256, 128), # Stage 1
        LayerSpec(nn.ReLU),             # Stage 1
        LayerSpec(nn.Linear, 128, 10),  # Stage 1 (output layer)
    ]

    # Pipeline with specified number of stages
    model = PipelineModule(
        layers=layers,
        num_stages=num_stages,
        loss_fn=nn.CrossEntropyLoss(),
        partition_method="uniform", # split layers evenly across stages
        activation_checkpoint_interval=0, # disable for simplicity
    )
    return model

# -----
# 2. Ray Train worker function
# -----
def train_func(config):
    """Training function for pipeline parallel model"""
    # Get Ray Train context (Ray handles distributed initialization)
    context = train.get_context()
    world_rank = context.get_world_rank()
    world_size = context.get_world_size()
    local_rank = context.get_local_rank()

    print(f"Worker {world_rank}/{world_size}, Local rank: {local_rank}")

    # Set device
    device = f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu"
    torch.cuda.set_device(local_rank)

    # Initialize DeepSpeed distributed backend explicitly for PipelineModule
    if not dist.is_initialized():
        # Initialize with the same backend Ray Train uses
        dist.init_process_group(
            backend="nccl" if torch.cuda.is_available() else "gloo",
            world_size=world_size,
            rank=world_rank
        )
    print(f"Initialized distributed backend on rank {world_rank}")

    # Initialize DeepSpeed's distributed backend
    import deepspeed.comm as dist_comm
    if not dist_comm.is_initialized():
        dist_comm.init_distributed(
            dist_backend="nccl" if torch.cuda.is_available() else "gloo",
            auto_mpi_discovery=False,
            distributed_port=29500,
            verbose=False
        )
        print(f"DeepSpeed distributed backend initialized on rank {world_rank}")

    # Create pipeline model
    num_stages = config.get("num_stages", 2)
    model = create_pipeline_model(num_stages=num_stages)

    print(f"Created pipeline model with {num_stages} stages")

    # Create proper DeepSpeed configuration with batch size constraints
    deepspeed_config = config["deepspeed_config"].copy()
    # (lines 87 to 98 are not on the slides)
    deepspeed_config.update({
        "train_batch_size": train_batch_size,
        "train_micro_batch_size_per_gpu": micro_batch_size,
        "gradient_accumulation_steps": gradient_accumulation_steps,
    })

    # Initialize DeepSpeed with pipeline model
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model,
        config=deepspeed_config,
        dist_init_required=False, # Ray Train handles distributed init
    )
    # (lines 111 to 196 are not on the slides)

if __name__ == "__main__":
    ray.init(num_gpus=2)
    print("Ray initialized for pipeline-parallel training")

    # DeepSpeed config for pipeline parallelism + ZeRO stage 1
    deepspeed_config = {
        "train_micro_batch_size_per_gpu": 4, # Smaller batch size per GPU
        "gradient_accumulation_steps": 2,     # Accumulate gradients
        "optimizer": {
            "type": "Adam",
            "params": {"lr": 1e-3, "weight_decay": 0.01},
        },
        "fp16": {"enabled": False}, # Keep FP32 for simplicity and stability
        "zero_optimization": {
            "stage": 1, # Stage 1 works well with pipeline parallelism
            "allgather_partitions": True,
            "reduce_scatter": True,
            "allgather_bucket_size": 2e8,
            "reduce_bucket_size": 2e8,
        },
        "steps_per_print": 5,
        "wall_clock_breakdown": False,

        # Pipeline-specific configurations
        "pipeline": {
            "pipe_partitioned": True,
            "grad_partitioned": True,
        }
    }

    # Training configuration
    train_config = {
        "epochs": 2, # Reduced epochs for demo
        "num_stages": 2, # Number of pipeline stages (should match num_workers)
        "deepspeed_config": deepspeed_config,
    }

    # Scaling configuration - one worker per pipeline stage
    scaling_config = ScalingConfig(
        num_workers=2, # Must match num_stages for pipeline parallelism
        use_gpu=True,
        resources_per_worker={"GPU": 1}, # One GPU per worker/stage
    )

    # Run configuration
    run_config = RunConfig(
        # verbose=2, # Enable for more detailed logging
    )

    # Create trainer
    trainer = TorchTrainer(
        train_func,
        train_loop_config=train_config,
        scaling_config=scaling_config,
        run_config=run_config,
    )

    try:
        result = trainer.fit()
        print("\nPipeline-parallel training completed successfully!")
        print(f"Final metrics: {result.metrics}")

    except Exception as e:
        print(f"Training failed with error: {e}")
        print("Common issues:")
        print("1. Make sure you have at least 2 GPUs available")
        print("2. Ensure DeepSpeed is properly installed")
        print("3. Check that CUDA and NCCL are working correctly")

    finally:
        ray.shutdown()
        print("Ray shut down")
